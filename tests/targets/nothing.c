/* A program that allocates nothing. */
int main(void) {
    return 0;
}
