// Command hello is what proctest's own test builds.
package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }
