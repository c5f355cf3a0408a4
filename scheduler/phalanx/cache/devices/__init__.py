"""Tables of the kinds that describe devices and claims to them, and what follows from them."""
