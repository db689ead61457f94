"""The ASAX paper's Tables 2 and 3 and its Figure 3, done again by simulation."""
