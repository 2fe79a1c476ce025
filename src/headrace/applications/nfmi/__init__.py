"""NFMi: network fault management, from text messages to one alarm for each fault."""
