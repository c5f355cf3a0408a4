"""The running scheduler, where all other rooms meet: wires them, runs cycles, carries out decisions."""
