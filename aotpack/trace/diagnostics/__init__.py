"""What torch says of a model that it cannot export, condensed to the user's lines."""
