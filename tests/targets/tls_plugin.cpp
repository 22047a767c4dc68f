/* build: -shared -fPIC -std=c++17 */
// A plugin with a thread_local object: its constructor, which allocates, runs in each thread that first touches it.
#include <cstdlib>
#include <memory>
#include <string>

struct Local {
    std::string text = std::string(100, 'x');
    std::unique_ptr<char[]> block = std::make_unique<char[]>(1000);
    char large[5000] = {};
};
static thread_local Local local;

extern "C" size_t plugin_touch() {
    local.text += "y";
    return local.text.size();
}
