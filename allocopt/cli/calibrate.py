"""``allocopt calibrate``: the coefficients of execution models, fitted to a user's own measurements."""

import typer

from allocopt.cli import calibrate_contention, calibrate_locality, calibrate_power

app = typer.Typer(no_args_is_help=True, help="Fit the coefficients of an execution model to your own measurements.")
app.command("contention")(calibrate_contention.command)
app.command("locality")(calibrate_locality.command)
app.command("power")(calibrate_power.command)


@app.callback()
def _models() -> None:
    """Keep the name of the model a word of its own, also while there is one only."""
