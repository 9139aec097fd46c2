"""Gives two updates one name"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    items = []

    @ctx.update("item")
    def add(name):
        items.append(name)

    @ctx.update("item")  # bad: duplicate_handler
    def remove(name):
        items.remove(name)

    await ctx.until(lambda: len(items) > 1, timeout="1h")
