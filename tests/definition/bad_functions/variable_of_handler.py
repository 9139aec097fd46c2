"""Sets a variable in an update, without `nonlocal`"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    paid = False

    @ctx.update("pay")
    def pay():
        paid = True  # bad: not_nonlocal

    await ctx.until(lambda: paid, timeout="1h")
