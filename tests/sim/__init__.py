"""The simulator: the real engine and runtime on in-memory ports, under schedules made from a seed.

python -m tests.sim 20000                     schedules to try, from seed 0
python -m tests.sim --seed 17                 one seed, told as a story
python -m tests.sim --seed 17 --mutant no_by  the same with one mutation of the engine
"""
