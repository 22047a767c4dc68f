class Row { public int id; public string name; public Row (int id) { this.id = id; name = @"row $id"; } }
void main () { var all = new GenericArray<Row> (); for (int i = 0; i < 100; i++) all.add (new Row (i)); print ("%d\n", all.length); }
