"""The precision report: what half precision does to the values of a network."""
