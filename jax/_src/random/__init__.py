"""Random numbers: keys, generators and distributions."""
