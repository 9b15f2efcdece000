import type { ContentExport, ContentImport, ContentInspection } from '../content-inspection.js'
import type { EntryPlace } from '../content-store.js'
import type { ObjectWriter, ObjectWriterParts } from './object-writer.js'

const OBJECTS = 200
/** It was granted where the content was written. */
const NO_QUOTA = { maxBytes: Infinity, maxEntries: Infinity }

type Inspection = ContentInspection & ContentExport & ContentImport

/** What an operator's commands do with a store, in short verbs beside servers that work. */
export function sqlContentInspection({
  call,
  objects,
  writer,
  nowSeconds
}: Omit<ObjectWriterParts, 'spool'> & { readonly writer: ObjectWriter }): Inspection {
  const findLostLists = async (): Promise<EntryPlace[]> => {
    const found: EntryPlace[] = []
    let after: EntryPlace | undefined = { did: '', key: '' }
    while (after !== undefined) {
      const page: Awaited<ReturnType<typeof call<'findLostLists'>>> = await call('findLostLists', after)
      found.push(...page.lost)
      after = page.next
    }
    return found
  }

  /** Corrects what is wrong, a page at a time. @returns how much it is */
  const correctEach = async (
    what: 'unusedContents' | 'missingPins' | 'surplusPins',
    isDryRun: boolean,
    correct: (cids: readonly string[]) => Promise<void>
  ): Promise<number> => {
    let count = 0
    let after: string | undefined = ''
    while (after !== undefined) {
      const page: Awaited<ReturnType<typeof call<'findWrong'>>> = await call('findWrong', what, after)
      count += page.wrong.length
      if (!isDryRun && page.wrong.length > 0) await correct(page.wrong)
      after = page.next
    }
    return count
  }

  return {
    async checkDatabase({ isDryRun }) {
      const before = await call('findFaults')
      if (before.damage.length > 0 || before.indexes.length === 0 || isDryRun) return before
      await call('rebuildIndexes', before.indexes)
      const after = await call('findFaults')
      const damage = [...after.damage, ...after.indexes.map((index) => `index ${index} cannot be rebuilt`)]
      return { damage, indexes: before.indexes }
    },

    async recount({ isDryRun, acceptsDamage = false }) {
      const damagedLists = await findLostLists()
      let owners = 0
      let afterOwner: number | undefined = 0
      while (afterOwner !== undefined) {
        const page: Awaited<ReturnType<typeof call<'inspectOwners'>>> = await call('inspectOwners', afterOwner)
        damagedLists.push(...page.damaged)
        owners += page.miscounted.length
        if (!isDryRun && page.miscounted.length > 0) await call('recountOwners', page.miscounted)
        afterOwner = page.next
      }
      if (acceptsDamage && !isDryRun) for (const place of damagedLists) await call('acceptList', place)
      const unusedContents = await correctEach('unusedContents', isDryRun, (cids) =>
        call('addUnreferenced', cids, nowSeconds())
      )
      let after: string | undefined = isDryRun ? undefined : ''
      while (after !== undefined) after = await call('collectUnreferenced', after, nowSeconds())
      return { owners, damagedLists, unusedContents }
    },

    async checkObjects({ isDryRun }) {
      let unused = 0
      let names: string[] = []
      const check = async (): Promise<void> => {
        const unknown = await call('findUnknownObjects', names)
        unused += unknown.length
        if (!isDryRun && unknown.length > 0) await call('addGarbage', unknown, nowSeconds())
        names = []
      }
      for await (const name of objects.list()) if (names.push(name) === OBJECTS) await check()
      if (names.length > 0) await check()
      return { unused }
    },

    async trackPins({ isDryRun }) {
      const toPin = await correctEach('missingPins', isDryRun, (cids) => call('addMissingPins', cids))
      const toUnpin = await correctEach('surplusPins', isDryRun, (cids) => call('removeSurplusPins', cids))
      return { toPin, toUnpin }
    },

    listUsedContents: (afterCid, limit) => call('listUsed', afterCid, limit),
    countUses: (cid) => call('countUses', cid),

    lastNumber: () => call('lastNumber'),
    exportLists: (after) => call('exportLists', after),
    exportEntries: (place) => call('exportEntries', place),
    exportFiles: (afterCid) => call('exportFiles', afterCid),
    exportDenied: (afterCid) => call('exportDenied', afterCid),
    exportPins: (afterCid) => call('exportPins', afterCid),

    reserveNumbers: (lastNumber) => call('reserveNumbers', lastNumber),
    importPins: (pins) => call('importPins', pins),
    // Pins come as they are there, and not from content.
    async importEntry({ content, ...entry }) {
      const write = { ...entry, replaces: 'nothing', quota: NO_QUOTA, tracksPins: false } as const
      await writer.store(content, (row) => call('writeEntry', { ...write, content: row }, nowSeconds()))
    },
    async importFile({ content, expiresAtSeconds }) {
      const file = { expiresAtSeconds, nowSeconds: nowSeconds(), tracksPins: false }
      await writer.store(content, (row) => call('writeFile', { ...file, content: row }))
    }
  }
}
