interface Row { id: number; tags: string[] }
export function by(rows: Row[]): Map<number, Row> {
  return new Map(rows.map(r => [r.id, r] as const));
}
