package platformtest

import "github.com/gpuaas/gpuaasctl/lab/platform/store"

// Store returns the platform's database.
func (p *Platform) Store() *store.Store { return p.store }

// openStore opens the database at path.
func (p *Platform) openStore(path string) {
	var err error
	if p.db, err = store.Connect(path); err != nil {
		p.tb.Fatal(err)
	}
	if p.store, err = store.New(p.tb.Context(), p.db); err != nil {
		p.tb.Fatal(err)
	}
}

// SetIdentity accepts (code "") or denies (a wire.Deny code) the node's credentials, without evidence.
func (p *Platform) SetIdentity(nodeID, code string) {
	p.tb.Helper()
	p.set("UPDATE nodes SET identity = ? WHERE id = ?", code, nodeID)
}

// RevokeCert revokes one certificate.
func (p *Platform) RevokeCert(serial string) {
	p.tb.Helper()
	p.set("UPDATE certs SET revoked_at = 1 WHERE serial = ?", serial)
}

// set runs an update that must change one row.
func (p *Platform) set(query string, args ...any) {
	p.tb.Helper()
	res, err := p.db.Exec(query, args...)
	if err != nil {
		p.tb.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		p.tb.Fatalf("%d rows changed: %v", n, err)
	}
}

// OpenFailures counts the audited failures that last.
func (p *Platform) OpenFailures() (n int) {
	p.tb.Helper()
	if err := p.db.QueryRow("SELECT count(*) FROM audit_open").Scan(&n); err != nil {
		p.tb.Fatal(err)
	}
	return n
}

// RefuseWrites makes every health check's write fail, as a full disk does.
func (p *Platform) RefuseWrites() {
	p.tb.Helper()
	const full = "CREATE TRIGGER full BEFORE INSERT ON written BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
	if _, err := p.db.Exec(full); err != nil {
		p.tb.Fatal(err)
	}
}
