"""`make soak`: the same things again and again, until whatever grows can be seen."""
