local t = {} for i = 1, 200000 do t[i] = { i, 'x' .. i } end local s = 0 for _, p in ipairs(t) do s = s + p[1] end print(s)
