"""The report's style sheet: no font, picture or script from elsewhere."""

CSS = """
:root{color-scheme:light dark;--text:#1d1c1d;--soft:#5c5b5e;--back:#fff;--card:#f5f6f8;--line:#d5d7dc;
--l0:#eef3fa;--l1:#c6dbef;--l2:#9ac4e4;--l3:#2f6fa5;--l4:#0b3c6f;--t0:#1d1c1d;--t3:#fff}
@media(prefers-color-scheme:dark){:root{--text:#e8e8ea;--soft:#abadb3;--back:#17181b;--card:#212327;--line:#3b3e45;
--l0:#1c232d;--l1:#1f3a55;--l2:#28557f;--l3:#78b0de;--l4:#cfe6fb;--t0:#e8e8ea;--t3:#10151b}}
*{box-sizing:border-box}
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back)}
main{max-width:1200px;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
header p,.foot,.legend{color:var(--soft)}.foot{margin-top:2rem;font-size:.9rem}
.note{border-left:4px solid var(--l3);padding:.25rem .75rem;color:var(--text)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(260px,1fr));gap:.75rem;margin:1.5rem 0}
dl div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
dt{font-weight:600}dd{margin:0}
.scroll{overflow:auto;max-height:80vh;border:1px solid var(--line);border-radius:8px}
.scroll:focus-visible{outline:3px solid var(--l3)}
table{border-collapse:collapse;font-size:.9rem;width:100%}
th,td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td{font-variant-numeric:tabular-nums}
thead th{position:sticky;top:0;background:var(--card);z-index:2}
.map{width:auto;font-size:11px;line-height:1}
.map th,.map td{padding:3px 1px;text-align:center;min-width:22px;border:0}
.map thead tr+tr th{top:1.6em;font-weight:400}
.map tbody th,.map thead th:first-child{position:sticky;left:0;text-align:left;background:var(--card);
padding:3px 8px;z-index:1}
.map thead th:first-child{z-index:3}
.map thead tr+tr th:first-child{position:sticky;left:auto;z-index:2;padding:3px 1px;text-align:center}
.map .day{border-left:2px solid var(--back)}.map th.day[colspan]{text-align:left;padding-left:6px}
.l0{background:var(--l0);color:var(--t0)}.l1{background:var(--l1);color:var(--t0)}.l2{background:var(--l2);color:var(--t0)}
.l3{background:var(--l3);color:var(--t3)}.l4{background:var(--l4);color:var(--t3)}.n{color:var(--soft)}
.legend span{display:inline-block;padding:.1rem .5rem;margin-left:.3rem;border-radius:4px;font-size:.85rem}
@media print{.scroll{overflow:visible;max-height:none}}
"""
