"""RFID packing: which product is in which case, and what is missing at the gate."""
