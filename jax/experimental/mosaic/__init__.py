"""What Mosaic's back ends offer to code that is written for them."""
