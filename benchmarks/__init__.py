"""What milepost costs, measured: `make bench`, or `make bench BENCH=publish` for one. Each module is one benchmark."""
