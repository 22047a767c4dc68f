set I := 1..40;
var x{I} >= 0, <= 10, integer;
maximize total: sum{i in I} (i mod 7 + 1) * x[i];
s.t. limit{k in 1..20}: sum{i in I} ((i * k) mod 11) * x[i] <= 300 + k;
solve;
end;
