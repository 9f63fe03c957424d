"""Access rights as facts: groups in groups, a live query of who may do what, and an audit."""

from dbsp.datomic import connect, q

conn = connect(
    schema="""[
    {:db/ident :user/name       :db/valueType :db.type/string :db/unique :db.unique/identity}
    {:db/ident :group/name      :db/valueType :db.type/string :db/unique :db.unique/identity}
    {:db/ident :group/member    :db/valueType :db.type/ref    :db/cardinality :db.cardinality/many}
    {:db/ident :document/title  :db/valueType :db.type/string :db/unique :db.unique/identity}
    {:db/ident :document/reader :db/valueType :db.type/ref    :db/cardinality :db.cardinality/many}
    {:db/ident :user/suspended  :db/valueType :db.type/boolean}]"""
)
start = conn.transact("""[
    {:db/id "ada" :user/name "Ada"} {:db/id "bo" :user/name "Bo"} {:db/id "cy" :user/name "Cy"}
    {:db/id "staff" :group/name "staff" :group/member ["ada" "board"]}
    {:db/id "board" :group/name "board" :group/member ["bo"]}
    {:document/title "handbook" :document/reader "staff"}
    {:document/title "minutes"  :document/reader ["board" "cy"]}]""")

# A member of a group is a user or another group: the rule is recursive.
rules = """[
    [(member ?group ?user) [?group :group/member ?user] [?user :user/name]]
    [(member ?group ?user) [?group :group/member ?inner] (member ?inner ?user)]
    [(may-read ?user ?document) [?document :document/reader ?user] [?user :user/name]]
    [(may-read ?user ?document) [?document :document/reader ?group] (member ?group ?user)]]"""
access = """
    [:find ?name ?title
     :in $ %
     :where (may-read ?user ?document)
            (not [?user :user/suspended true])
            [?user :user/name ?name]
            [?document :document/title ?title]]"""
live = conn.subscribe(access, rules)
print(live.rows())
# -> [('Ada', 'handbook'), ('Bo', 'handbook'), ('Bo', 'minutes'), ('Cy', 'minutes')]


def report_changes() -> None:
    """Print what the transactions since the last call have changed."""
    for delta in live:
        for (name, title), weight in delta.rows:
            print(name, "may read" if weight > 0 else "may no longer read", title)


# Cy joins the board: one new fact, one new right, since the minutes were open to Cy already.
conn.transact([[":db/add", (":group/name", "board"), ":group/member", (":user/name", "Cy")]])
report_changes()
# -> Cy may read handbook

# The board leaves the staff: a member of the board may lose a right that comes through two groups.
reorganisation = conn.transact(
    [
        [":db/retract", (":group/name", "staff"), ":group/member", (":group/name", "board")],
        [":db/add", (":group/name", "staff"), ":group/member", (":user/name", "Bo")],
        {":db/id": "datomic.tx", ":db/doc": "reorganisation"},
    ]
)
report_changes()
# -> Cy may no longer read handbook

conn.transact([{":user/name": "Bo", ":user/suspended": True}])
report_changes()
# -> Bo may no longer read handbook
# -> Bo may no longer read minutes

# The audit: who could read the handbook before the reorganisation, and when did each right change?
before = conn.db().as_of(reorganisation.t - 1)
print([name for name, title in q(access, before, rules) if title == "handbook"])
# -> ['Ada', 'Bo', 'Cy']
for delta in conn.subscribe(access, rules, since=start.t):
    print(delta.t, delta.rows)
# -> 3 [(('Cy', 'handbook'), 1)]
# -> 4 [(('Cy', 'handbook'), -1)]
# -> 5 [(('Bo', 'handbook'), -1), (('Bo', 'minutes'), -1)]
