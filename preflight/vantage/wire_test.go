package vantage

import (
	"net"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"golang.org/x/crypto/ssh"
)

// late delays the end of a connection for its reader, as a busy machine does.
type late struct {
	*wire
	ended, release chan struct{}
}

func (l *late) Read(p []byte) (int, error) {
	n, err := l.wire.Read(p)
	if err != nil {
		close(l.ended)
		<-l.release
	}
	return n, err
}

// A channel requested while a connection ends is refused at once. The library's own check of its connection comes
// later, and a request made before it would never be answered.
func TestNoChannelOfAnEndedConnection(t *testing.T) {
	tier.NeedsHost(t)
	t.Parallel()
	for name, end := range map[string]func(*sshtest.Server, net.Conn){
		"the server ends it": func(s *sshtest.Server, _ net.Conn) { s.Drop() },
		"we do":              func(_ *sshtest.Server, c net.Conn) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Config{})
			conn, err := net.Dial("tcp", s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			l := &late{wire: newWire(conn, nil), ended: make(chan struct{}), release: make(chan struct{})}
			c, chans, reqs, err := ssh.NewClientConn(l, s.Addr, &ssh.ClientConfig{User: "root",
				Auth:            []ssh.AuthMethod{ssh.PublicKeys(sshtest.NewKey(t))},
				HostKeyCallback: ssh.FixedHostKey(s.HostKey.PublicKey())})
			if err != nil {
				t.Fatal(err)
			}
			l.atEnd(func() { refuseChannels(c) })
			client := ssh.NewClient(c, chans, reqs)
			end(s, conn)
			<-l.ended
			refused := make(chan error, 1)
			go func() {
				_, err := client.NewSession()
				refused <- err
			}()
			select {
			case err := <-refused:
				if err == nil {
					t.Error("a channel of a connection that has ended")
				}
			case <-time.After(60 * time.Second):
				t.Error("the channel is waited for")
			}
			close(l.release)
			_ = client.Wait()
		})
	}
}
