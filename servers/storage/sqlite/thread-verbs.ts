import type { SqlConnection } from 'express-did-auth/stores/sqlite'
import { ContentTable } from './content-table.js'
import { ContentVerbs } from './content-verbs.js'
import { EntryTable } from './entry-table.js'
import { ExportVerbs } from './export-verbs.js'
import { FileTable } from './file-table.js'
import { InspectionVerbs } from './inspection-verbs.js'
import { PinTable } from './pin-table.js'
import { UpkeepVerbs } from './upkeep-verbs.js'

/** All that the thread can be asked, in groups. */
export interface ThreadVerbs {
  readonly content: ContentVerbs
  readonly pins: PinTable
  readonly upkeep: UpkeepVerbs
  readonly inspection: InspectionVerbs
  readonly exports: ExportVerbs
}

/** A verb as messages name it. */
export type VerbName = { [G in keyof ThreadVerbs]: `${G}.${Extract<keyof ThreadVerbs[G], string>}` }[keyof ThreadVerbs]

/** Verbs that write nothing: they are run at once, and in no transaction. */
export const READS: ReadonlySet<string> = new Set<VerbName>([
  'content.describeList',
  'content.listEntries',
  'content.listOwnEntries',
  'content.usageOf',
  'content.storedBytes',
  'content.findFile',
  'content.findContents',
  'content.isTakenDown',
  'pins.open',
  'pins.countOpen',
  'pins.listPins',
  'upkeep.vacuum',
  'upkeep.truncateLog',
  'inspection.checkFile',
  'inspection.countOwners',
  'inspection.damagedLists',
  'inspection.unlistedKeys',
  'inspection.listUnused',
  'inspection.listUsed',
  'inspection.listPinFaults',
  'inspection.countUses',
  'inspection.listUnknownObjects',
  'exports.lastNumber',
  'exports.lists',
  'exports.entries',
  'exports.files',
  'exports.denied',
  'exports.pins'
])

/** Verbs that need little space and make some: they are tried again with the reserve. */
export const REMOVALS: ReadonlySet<string> = new Set<VerbName>([
  'content.removeEntries',
  'content.deleteExpiredFiles',
  'pins.claim',
  'pins.finish',
  'pins.postpone',
  'upkeep.claimGarbage',
  'upkeep.forgetGarbage',
  'upkeep.takeDown'
])

/** The verbs on a database. */
export function threadVerbs(connection: SqlConnection, tracksPins: boolean): ThreadVerbs {
  const tables = {
    contents: new ContentTable(connection),
    entries: new EntryTable(connection),
    files: new FileTable(connection),
    pins: new PinTable(connection)
  }
  return {
    content: new ContentVerbs(tables, tracksPins),
    pins: tables.pins,
    upkeep: new UpkeepVerbs(connection, tables),
    inspection: new InspectionVerbs(connection, tables),
    exports: new ExportVerbs(connection, tables)
  }
}

/** Runs a verb by its name. */
export function runVerb(verbs: ThreadVerbs, name: string, args: readonly unknown[]): unknown {
  const [group = '', verb = ''] = name.split('.')
  // Messages come from our own other thread, whose calls are typed.
  const ofGroup = (verbs as unknown as Record<string, Record<string, (...args: unknown[]) => unknown>>)[group]
  const method = ofGroup?.[verb]
  if (method === undefined) throw new Error(`no such verb of a content store: ${name}`)
  return method.apply(ofGroup, [...args])
}
