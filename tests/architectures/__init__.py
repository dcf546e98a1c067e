"""Real architectures at tiny sizes."""
