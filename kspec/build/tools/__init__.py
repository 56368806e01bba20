"""Commands other than builds: demo, doctor, trace, warm, freeze, show, cache."""
