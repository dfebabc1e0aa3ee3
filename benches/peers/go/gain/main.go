// Gain: one worker on io_uring, a search for the ends of requests, nothing else parsed. Closes after the reply to a request with "Connection: close".
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/pawelgaczynski/gain"
	"github.com/pawelgaczynski/gain/logger"
)

var (
	end     = []byte("\r\n\r\n")
	closing = []byte("onnection: close")
	kept    = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n")
	lastOne = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n")
	replies = make([]byte, 0, 64*1024)
)

type server struct{}

func (*server) OnStart(gain.Server)      {}
func (*server) OnAccept(gain.Conn)       {}
func (*server) OnClose(gain.Conn, error) {}

// OnRead answers all whole requests in the buffer with one write.
func (*server) OnRead(conn gain.Conn, _ int) {
	received, err := conn.Peek(-1)
	if err != nil {
		return
	}
	used, closes := 0, false
	replies = replies[:0]
	for !closes {
		length := bytes.Index(received[used:], end)
		if length < 0 {
			break
		}
		head := received[used : used+length]
		used += length + len(end)
		if closes = bytes.Contains(head, closing); closes {
			replies = append(replies, lastOne...)
		} else {
			replies = append(replies, kept...)
		}
	}
	_, _ = conn.Discard(used)
	if closes {
		conn.SetContext(closing)
	}
	if len(replies) > 0 {
		_, _ = conn.Write(replies)
	}
}

// OnWrite closes after the last reply: an earlier close would discard it.
func (*server) OnWrite(conn gain.Conn, _ int) {
	if conn.Context() != nil {
		_ = conn.Close()
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gain ADDR:PORT")
		os.Exit(2)
	}
	err := gain.ListenAndServe(
		"tcp://"+os.Args[1],
		&server{},
		gain.WithArchitecture(gain.SocketSharding),
		gain.WithWorkers(1),
		gain.WithLoggerLevel(logger.ErrorLevel),
	)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
