"""Car ADN: accidents on a motorway, notified once each."""
