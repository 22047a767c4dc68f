%module thing
%{
int twice(int n);
%}
struct pair { int a; double b; char *name; };
int twice(int n);
double sum(struct pair *all, int count);
