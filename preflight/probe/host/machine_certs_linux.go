package host

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// certSoon is how long before its end a certificate is listed.
	certSoon = 14 * 24 * time.Hour
	// maxCertFiles and maxCertFile bound what is read of certificates.
	maxCertFiles = 256
	maxCertFile  = 128 << 10
)

// certPlaces are where programs of a node keep the certificates that they use. Folders with the certificates of
// authorities are not among them: each system has some that ended long ago, and nothing uses them.
var certPlaces = []string{
	"etc/kubernetes/pki/*.crt", "etc/kubernetes/pki/etcd/*.crt", "etc/etcd/pki/*.crt",
	"var/lib/kubelet/pki/kubelet-client-current.pem", "var/lib/kubelet/pki/kubelet-server-current.pem",
	"var/lib/kubelet/pki/kubelet.crt", "etc/docker/certs.d/*/*.cert", "etc/letsencrypt/live/*/cert.pem",
}

// certificates lists those that end soon or have ended: in certPlaces, and in more files, which are absolute.
func (m *machineReader) certificates(more []string, now time.Time) {
	var files []string
	for _, place := range certPlaces {
		found, err := filepath.Glob(filepath.Join(m.root, place))
		if err == nil {
			files = append(files, found...)
		}
	}
	for _, path := range more {
		if filepath.IsAbs(path) {
			files = append(files, filepath.Join(m.root, path))
		}
	}
	denied := 0
	for _, path := range files[:min(len(files), maxCertFiles)] {
		c, err := firstCert(path)
		if os.IsPermission(err) {
			denied++
		}
		if err != nil || c == nil {
			continue
		}
		m.facts.CertsRead++
		if c.NotAfter.Sub(now) < certSoon && len(m.facts.Certificates) < diag.MaxListed {
			m.facts.Certificates = append(m.facts.Certificates, diag.HostCertificate{
				Path:    filepath.Join("/", strings.TrimPrefix(path, m.root)),
				Subject: scrub.Text(c.Subject.String()), NotAfter: diag.At(c.NotAfter)})
		}
	}
	if denied > 0 {
		m.unread("certificates that only root may read")
	}
	all := m.facts.Certificates // package sort: each generic sort of a struct is 14 KB of the agent's program
	sort.Slice(all, func(i, j int) bool { return all[i].NotAfter.Before(all[j].NotAfter.Time) })
}

// firstCert returns the first certificate in a file, which is that of the program; nil if it has none.
func firstCert(path string) (*x509.Certificate, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, err
	}
	text := make([]byte, maxCertFile) // of a longer file, the beginning
	n, err := io.ReadFull(f, text)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	text = text[:n]
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, nil
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}
