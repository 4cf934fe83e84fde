"""Files and columns in, files out: the only room of a campaign that knows file formats."""
