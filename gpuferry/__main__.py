"""`python -m gpuferry` is the command line."""

from gpuferry.cli.app import run

if __name__ == "__main__":
    run()
