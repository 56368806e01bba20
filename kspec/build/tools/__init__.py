"""What the command line offers beside builds: demo, doctor, trace, warm, freeze, show, cache."""
