"""Where GHS is computed: compiled C for float32 on the CPU, torch for everything else."""
