for {set i 0} {$i < 60000} {incr i} { lappend all [list $i [string repeat x [expr {$i % 90}]]] }
puts [llength $all]
