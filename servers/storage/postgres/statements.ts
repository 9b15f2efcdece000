import type { TablePrefix } from './content-schema.js'

/** A statement, under a name that prepares it once for each connection. */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** Makes statements on a server's tables: `~` in a text stands for their prefix. */
export function statementsOn(prefix: TablePrefix): (name: string, text: string) => Statement {
  return (name, text) => ({
    name: `${prefix}_${name}`,
    text: text.replaceAll('~', `${prefix}_`).replaceAll(/\s+/g, ' ')
  })
}
