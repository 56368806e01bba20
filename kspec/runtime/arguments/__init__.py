"""Arguments of a call in, checked operands and a binding of types out."""
