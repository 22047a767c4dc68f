t = (1..100000).map { |i| [i, "x#{i}"] }; puts t.sum { |p| p[0] }
