// Go's net/http with a server as in its documentation. Uses one processor.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: nethttp ADDR:PORT")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	routes := http.NewServeMux()
	reply := []byte("ok\n")
	routes.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(reply)
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], routes))
	os.Exit(1)
}
