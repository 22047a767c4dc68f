set terminal svg
set output 'plot.svg'
plot sin(x) with lines, cos(x) with points
