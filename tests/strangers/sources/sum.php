<?php $t = []; for ($i = 0; $i < 200000; $i++) $t[] = [$i, "x$i"]; echo count($t), "\n";
