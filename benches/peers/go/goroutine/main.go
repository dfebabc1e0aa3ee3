// The control: one goroutine per connection with one read, one write and a close, without parsing the request. Uses one processor.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goroutine ADDR:PORT")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", os.Args[1])
	for err == nil {
		var conn net.Conn
		if conn, err = listener.Accept(); err == nil {
			go answer(conn)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

var reply = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n")

func answer(conn net.Conn) {
	defer conn.Close()
	request := make([]byte, 4096)
	if n, err := conn.Read(request); err == nil && n > 0 {
		_, _ = conn.Write(reply)
	}
}
