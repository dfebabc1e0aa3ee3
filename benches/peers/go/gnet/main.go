// gnet: one event loop, a search for the ends of requests, nothing else parsed. Closes after the reply to a request with "Connection: close".
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/panjf2000/gnet/v2"
)

type server struct {
	gnet.BuiltinEventEngine
}

var (
	end      = []byte("\r\n\r\n")
	closing  = []byte("onnection: close")
	kept     = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n")
	lastOne  = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n")
	replySet = make([]byte, 0, 64*1024)
)

// OnTraffic answers all whole requests in the buffer with one write.
func (*server) OnTraffic(conn gnet.Conn) gnet.Action {
	received, _ := conn.Peek(-1)
	replies, used, action := replySet[:0], 0, gnet.None
	for action == gnet.None {
		length := bytes.Index(received[used:], end)
		if length < 0 {
			break
		}
		head := received[used : used+length]
		used += length + len(end)
		if bytes.Contains(head, closing) {
			replies = append(replies, lastOne...)
			action = gnet.Close
		} else {
			replies = append(replies, kept...)
		}
	}
	_, _ = conn.Discard(used)
	if len(replies) > 0 {
		_, _ = conn.Write(replies)
	}
	return action
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gnet ADDR:PORT")
		os.Exit(2)
	}
	err := gnet.Run(
		&server{},
		"tcp://"+os.Args[1],
		gnet.WithNumEventLoop(1),
		gnet.WithReuseAddr(true),
		gnet.WithTCPNoDelay(gnet.TCPNoDelay),
	)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
