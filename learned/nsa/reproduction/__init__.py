"""Tables III and IV and Figures 4 to 6 of the NSA paper, done again."""
