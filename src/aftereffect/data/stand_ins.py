"""Published averages of the two data sets, for experiments without the files."""

#: Share of each parent category among Outbrain's categorised documents, by category id.
OUTBRAIN_PARENTS = {
    10: 0.0009,
    11: 0.0387,
    12: 0.0504,
    13: 0.0129,
    14: 0.1928,
    15: 0.1202,
    16: 0.1070,
    17: 0.1780,
    18: 0.0820,
    19: 0.1469,
    20: 0.0474,
    21: 0.0228,
}

#: The three largest of these, 14, 17 and 19, as parts of their sum.
OUTBRAIN_THREE_LARGEST = (0.372, 0.344, 0.284)

#: Share of each of ten clusters of categories among the pages on which Outbrain's ads were clicked.
OUTBRAIN_PAGE_CLUSTERS = (0.007, 0.001, 0.093, 0.110, 0.002, 0.717, 0.023, 0.008, 0.010, 0.029)

#: Share usable on each day from Monday to Sunday, of the 4,537 coupons that are not usable every day.
COUPON_WEEKDAYS = (0.776, 0.799, 0.911, 0.921, 0.861, 0.652, 0.638)
