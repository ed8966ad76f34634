/** A text that is translated where it is shown. The key is the English sentence. */
export interface Message {
  key: string;
  values?: Record<string, string | number>;
}

/** Marks a text for translation: scripts/i18n.ts collects the first argument. */
export const msg = (key: string, values?: Message['values']): Message => ({ key, values });

/** The English text. */
export const inEnglish = (m: Message): string => m.key.replace(/{{(\w+)}}/g, (all, name: string) => String(m.values?.[name] ?? all));
