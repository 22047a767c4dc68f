print(sum(i = 1, 20000, i^2)); print(factor(2^89 - 1));
