"""The lab: runs that are opened, stepped, forked and explained, for a page in the browser."""
