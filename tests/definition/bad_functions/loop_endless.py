"""Waits in a loop that awaits nothing"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    paid = False

    @ctx.update("pay")
    def pay():
        nonlocal paid
        paid = True

    while not paid:  # bad: endless_loop
        pass
