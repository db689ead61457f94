"""``allocopt calibrate``: the coefficients of execution models, fitted to a user's own measurements."""

import typer

from allocopt.cli import calibrate_locality

app = typer.Typer(no_args_is_help=True, help="Fit the coefficients of an execution model to your own measurements.")
app.command("locality")(calibrate_locality.command)


@app.callback()
def _models() -> None:
    """Keep the name of the model a word of its own, also while there is one only."""
